// Package expected reads the expected inventory of a site, which lists the node and slot in which each board should be.
// It exports the list as series, which alerts compare with the actual boards.
package expected
