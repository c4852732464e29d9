"""Game records: labelled positions, the embedded ones and the user's."""
