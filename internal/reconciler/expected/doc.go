// Package expected reads the site's own list of GPU boards: which serial number should
// be in which node, and where in it. It shows the list as series, and compares nothing:
// what is there is known to Prometheus, and an alert holds the one against the other.
package expected
