// Package expected reads the expected inventory of a site. It lists the node and slot in which each
// board serial should be. It exports the list as series; alerts compare it with the actual boards.
package expected
