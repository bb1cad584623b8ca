"""The documentation site: pages made of the documents in docs/, and the build by Zensical."""
