"""Where is it kept? The only package that knows Redis."""
