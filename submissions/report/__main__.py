"""`python -m submissions.report`: writes the JSON Schema of the report's JSON form beside this
file.
"""

import json
from pathlib import Path

from submissions.report.document import schema

if __name__ == "__main__":
    Path(__file__).with_name("report-document.json").write_text(
        json.dumps(schema(), indent=1) + "\n", "utf-8"
    )
