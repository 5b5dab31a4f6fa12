"""A real Kubernetes of one node, built from pinned Go modules and Debian packages."""
