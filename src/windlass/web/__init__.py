"""How HTTP reaches us. Knows no dialect: what is asked, and what may be answered, is the application's."""
