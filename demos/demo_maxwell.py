# # A Maxwell cavity: which terms matter?
