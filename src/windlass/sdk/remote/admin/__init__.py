"""Operations of the deployment over HTTP."""
