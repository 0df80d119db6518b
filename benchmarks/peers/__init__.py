"""Regard's rivals, one file each."""
