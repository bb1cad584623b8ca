"""Operations over HTTP for the operators of a deployment."""
