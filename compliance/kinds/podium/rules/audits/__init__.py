"""Rules about the compliance tests of podium's results."""
