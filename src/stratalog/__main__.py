"""`python -m stratalog` is the command line."""

from stratalog.surfaces.cli.app import main

if __name__ == "__main__":
    main()
