// Package field tests what public reports of users and projects describe: the files of a PCI bus,
// serial numbers, ids of machines, lines of logs. Serial numbers in the cases are invented.
package field
