package app

var NewHandler = newHandler
