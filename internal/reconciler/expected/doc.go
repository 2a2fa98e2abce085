// Package expected reads the expected inventory of a site. The inventory lists the node and slot in which each board
// should be. The package exports the list as series, and alerts compare these series with the actual boards.
package expected
