package app

// NewHandler serves the pages of a snapshot.
var NewHandler = newHandler
