"""AWS's own CLI for several commands in one process: a list of shell lines in, their output as JSON out."""

import contextlib
import io
import json
import shlex
import sys

from awscli.clidriver import create_clidriver


def printed(line: str) -> str:
    program, *words = shlex.split(line)
    output, complaint = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(complaint):
        code = driver.main(["--output", "json", *words]) if program == "aws" else 127
    if code != 0:
        sys.exit(f"{line}: {complaint.getvalue().strip()} ({code})")
    return output.getvalue()


driver = create_clidriver()
json.dump([printed(line) for line in json.load(sys.stdin)], sys.stdout)
