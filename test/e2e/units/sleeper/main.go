// Sleeper is the only program of a container. It waits to be stopped.
package main

import "time"

func main() { time.Sleep(time.Hour) }
