// Package field tests cases from public reports by users and projects, such as files of a PCI bus, serial
// numbers, machine ids and log lines. Serial numbers in the cases are invented.
package field
