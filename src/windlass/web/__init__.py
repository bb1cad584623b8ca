"""How does HTTP reach us?"""
