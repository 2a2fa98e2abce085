// Package field tests cases from public reports of users and projects, such as files of a PCI bus, serial numbers,
// machine ids and log lines. The serial numbers in the cases are invented.
package field
