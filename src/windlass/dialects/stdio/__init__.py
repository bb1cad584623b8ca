"""The processor's dialect: messages as single lines of JSON on stdin and stdout, logs on stderr."""
