"""What results amount to, whatever the kind of their round: the records from which scores, reports
and comparisons are made.
"""
