// Compiled only to have its precompiled header.
