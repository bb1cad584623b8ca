"""Proof that nothing is lost: clients that write down what they were told (load), and judges of what they wrote
(judging). What goes wrong meanwhile is for whoever runs them."""
