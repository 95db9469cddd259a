"""The bus beside raw ZeroMQ: bus_bench measures both in turns and prints the bars; this module takes its rows. Called by run.py."""
import report
from settings import ToolFailed, json_lines, run_tool, say

TOOL_SECONDS_MAX = 600
QUICK = ("--rounds", "1", "--messages", "200")


def rows(settings):
    say("bus beside raw ZeroMQ")
    try:
        with settings.watch("bus_bench"):
            output = run_tool([settings.bus_bench, "--json", *(QUICK if settings.is_quick else ())], TOOL_SECONDS_MAX)
    except ToolFailed as error:
        return [report.missing("bus", str(error))]
    rows_of_tool = [report.row_from_tool(fields, "bus") for fields in json_lines(output) if "row" in fields]
    return rows_of_tool or [report.missing("bus", "bus_bench printed no rows")]
