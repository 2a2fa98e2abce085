// Kubectl is kubectl, built in a separate module. The tests of the manifests use it to run the documented
// commands.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

func main() { os.Exit(cli.Run(cmd.NewDefaultKubectlCommand())) }
