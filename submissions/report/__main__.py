"""`python -m submissions.report`: writes the JSON Schema of the report's JSON form next to this
file.
"""

import json
from pathlib import Path

from submissions.report.document import build_document_schema

if __name__ == "__main__":
    Path(__file__).with_name("report-document.json").write_text(
        json.dumps(build_document_schema(), indent=1) + "\n", "utf-8"
    )
