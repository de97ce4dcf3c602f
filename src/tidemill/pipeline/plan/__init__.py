"""Plans: views as a circuit of operators, as data that can be printed, stored and compared.

Words: an *expression* is a typed tree over the columns of a node's input; a *node* is one operator with the
positions of its inputs; a *circuit* is all nodes of a pipeline, each after its inputs; a *fingerprint* says
what a node computes, down to the tables, so that state is found again by the operator it belongs to; a
*stage* is the nodes that run between two exchanges.

Read `expression`, `node`, `circuit`.
"""
