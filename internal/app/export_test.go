package app

// NewHandler returns a handler that serves the pages of a snapshot.
var NewHandler = newHandler
