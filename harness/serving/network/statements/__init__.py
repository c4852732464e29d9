"""What servers and users say of what serves: podium adds nothing to it."""
