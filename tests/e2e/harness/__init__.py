"""What the end-to-end specifications stand on: servers, a byte-exact client, a relay that lies, a
runner."""
