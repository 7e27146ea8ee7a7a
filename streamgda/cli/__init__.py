"""The command line: each command a few lines over the library, and nothing numerical.

The modules import click alone; what a command needs of the library is imported when it runs.
"""
