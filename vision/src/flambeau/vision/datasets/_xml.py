"""XML as annotations use it: elements and text, no entities of the file's own."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from flambeau.core.errors import FlambeauError

__all__ = ["XmlError", "read_xml"]


class XmlError(FlambeauError, ValueError):
    """An XML file that is damaged, or declares entities, with which a small file can grow without bound."""


def read_xml(path: str | Path) -> Element:
    """The root element of an XML file.

    Raises:
        XmlError: the file is not well-formed, or declares entities.
    """

    def refuse(name: str, *_: object) -> None:
        raise XmlError(f"{path} declares the entity {name!r}; annotations need none. Fetch the file again.")

    builder = TreeBuilder()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.data
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(Path(path).read_bytes(), True)
    except expat.ExpatError as error:
        raise XmlError(f"{path} is no whole XML file: {error}. Fetch it again.") from error
    return builder.close()
