"""`python -m failuremap` is the command `failuremap`."""

from failuremap.cli import main

if __name__ == "__main__":
    main()
