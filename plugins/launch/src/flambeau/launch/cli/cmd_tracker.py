"""`flambeau launch tracker list jobs|metadata|artifacts|lineage`."""

from __future__ import annotations

import argparse
from functools import cached_property

from flambeau.launch.cli.cmd_base import SubCommand
from flambeau.launch.cli.output import table
from flambeau.launch.errors import TrackerError
from flambeau.launch.runner.api import get_configured_trackers
from flambeau.launch.tracker.api import TrackerBase, build_trackers

__all__ = ["CmdTracker"]


class CmdTracker(SubCommand):
    """Shows what runs left in the first tracker that configuration files name, or in our own file of runs."""

    def __init__(self) -> None:
        self._runs: dict[str, object] = {}

    @cached_property
    def tracker(self) -> TrackerBase:
        """The tracker that is asked.

        Raises:
            TrackerError: the configured one cannot be made.
        """
        configured = get_configured_trackers() or {"runlog": None}
        if not (trackers := list(build_trackers(configured))):
            raise TrackerError(f"no tracker of {', '.join(configured)} can be used; see the warning above.")
        return trackers[0]

    def add_arguments(self, subparser: argparse.ArgumentParser) -> None:
        """What to list."""
        listing = subparser.add_subparsers(metavar="list", required=True).add_parser("list", help="list what is there")
        kinds = listing.add_subparsers(metavar="WHAT", required=True)
        for name, text, add in (
            ("jobs", "runs", self.add_list_job_arguments),
            ("metadata", "values of a run", self.add_metadata_arguments),
            ("artifacts", "what a run made", self.add_artifacts_arguments),
            ("lineage", "where a run comes from, and what comes from it", self.add_job_lineage_arguments),
        ):
            add(kinds.add_parser(name, help=text))

    def run(self, args: argparse.Namespace) -> None:
        """List it."""
        args.list(args)

    def add_list_job_arguments(self, subparser: argparse.ArgumentParser) -> None:
        """Of which run."""
        subparser.add_argument("--parent-run-id", help="only runs that used this one")
        subparser.set_defaults(list=self.list_jobs_command)

    def list_jobs_command(self, args: argparse.Namespace) -> None:
        """List runs."""
        chosen = {"parent_run_id": args.parent_run_id} if args.parent_run_id else {}
        print(table(("JOB ID",), [(run,) for run in self.tracker.run_ids(**chosen)]))

    def add_job_lineage_arguments(self, subparser: argparse.ArgumentParser) -> None:
        """Of which run."""
        subparser.add_argument("RUN_ID", help="id of the run")
        subparser.set_defaults(list=self.job_lineage_command)

    def job_lineage_command(self, args: argparse.Namespace) -> None:
        """List where a run comes from and what comes from it."""
        lineage = self.tracker.lineage(args.RUN_ID)
        rows = [("source", run) for run in lineage.sources] + [("descendant", run) for run in lineage.descendants]
        print(table(("KIND", "JOB ID"), rows))

    def add_metadata_arguments(self, subparser: argparse.ArgumentParser) -> None:
        """Of which run."""
        subparser.add_argument("RUN_ID", help="id of the run")
        subparser.set_defaults(list=self.list_metadata_command)

    def list_metadata_command(self, args: argparse.Namespace) -> None:
        """List values."""
        print(table(("ID", "VALUE"), list(self.tracker.metadata(args.RUN_ID).items())))

    def add_artifacts_arguments(self, subparser: argparse.ArgumentParser) -> None:
        """Of which run, and which."""
        subparser.add_argument("RUN_ID", help="id of the run")
        subparser.add_argument("--artifact", help="only this one")
        subparser.set_defaults(list=self.list_artifacts_command)

    def list_artifacts_command(self, args: argparse.Namespace) -> None:
        """List what a run made."""
        found = self.tracker.artifacts(args.RUN_ID).values()
        rows = [(a.name, a.path, a.metadata or "") for a in found if args.artifact in (None, a.name)]
        print(table(("ARTIFACT", "PATH", "METADATA"), rows))
