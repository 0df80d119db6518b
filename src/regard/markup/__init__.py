"""Markup: texts with tags, which are taken out before a translation and put back after it."""
