"""The application: settings, node, HTTP, command line. Nobody imports app."""
