"""Operations on tasks: the figures that workers report, joined with failures and workers."""
