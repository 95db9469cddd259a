"""Requests that schemathesis generates from /openapi.json, thousands of bodies, paths and methods, against the server that returns it."""

import subprocess
import sys

# A value that the schema allows may be wrong for another reason (a token outside the vocabulary); that is not checked here.
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,negative_data_rejection,unsupported_method,allow_header_conformance"


def test_nothing_generated_from_the_document_finds_a_hole(start, tmp_path):
    gateway = start()  # its own gateway, so that no other test is affected
    done = subprocess.run([sys.executable, "-m", "schemathesis.cli", "run", gateway.url + "/openapi.json", "--checks", CHECKS, "--seed", "7", "--max-examples", "10",
                           "--continue-on-failure", "--request-timeout", "20", "--warnings", "off", "--no-color"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert "Tested: " in done.stdout and "failures" not in done.stdout
