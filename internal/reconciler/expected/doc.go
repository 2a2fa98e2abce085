// Package expected reads the expected inventory of a site: which board serial should be in
// which node and slot. It exports the list as series; alerts compare it with the actual boards.
package expected
