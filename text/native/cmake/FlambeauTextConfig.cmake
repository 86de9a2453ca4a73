# Tokenizers for programs without Python. `find_package(FlambeauText CONFIG REQUIRED)` finds this file when
# `FlambeauText_DIR` is what `flambeau.text.cmake_dir()` returns, and defines the library
#
#   FlambeauText::flambeau_text
#
# with its header `flambeau/text.h`; `examples/libtext/CMakeLists.txt` shows how to ask for it.

if(TARGET FlambeauText::flambeau_text)
  return()
endif()

get_filename_component(_flambeau_text_root "${CMAKE_CURRENT_LIST_DIR}/.." ABSOLUTE)
find_library(FlambeauText_LIBRARY NAMES flambeau_text libflambeau_text PATHS "${_flambeau_text_root}" NO_DEFAULT_PATH)
if(NOT FlambeauText_LIBRARY)
  set(FlambeauText_FOUND FALSE)
  set(FlambeauText_NOT_FOUND_MESSAGE "no libflambeau_text in ${_flambeau_text_root}; reinstall flambeau-text")
  return()
endif()

add_library(FlambeauText::flambeau_text SHARED IMPORTED)
set_target_properties(
  FlambeauText::flambeau_text PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_flambeau_text_root}/include")
if(WIN32)
  set_target_properties(
    FlambeauText::flambeau_text PROPERTIES IMPORTED_IMPLIB "${FlambeauText_LIBRARY}"
                                           IMPORTED_LOCATION "${_flambeau_text_root}/libflambeau_text.dll")
else()
  set_target_properties(FlambeauText::flambeau_text PROPERTIES IMPORTED_LOCATION "${FlambeauText_LIBRARY}")
endif()
