"""`python3 -m baton_server` is `cluster`."""
import sys

from baton_server import main

sys.argv[0] = "cluster"
main()
