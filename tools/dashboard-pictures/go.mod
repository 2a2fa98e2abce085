// This is no Go module: the file keeps the Go packages that are among the npm packages
// here out of the one above.
module github.com/gpuledger/gpuledger/tools/dashboard-pictures

go 1.26.0
