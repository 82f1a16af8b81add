"""Commands for the first hour: is this machine ready, and a log without a robot."""
