"""Who takes part in decoding, one file each; toolkits run theirs in their own Python."""
