package unit

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// maxContainerFile limits the size of an engine's file in bytes.
const maxContainerFile = 8 << 20

// container has the used data of an engine's files about a container.
type container struct {
	manager, name, image, project string
	devices                       []gpu.DeviceName
}

// dockerConfig has the used fields of <data root>/containers/<id>/config.v2.json. The file contains
// the container's environment, and with it secrets, so nothing else is kept.
type dockerConfig struct {
	Name   string
	Config struct {
		Image  string
		Env    visibleDevices
		Labels struct {
			Project string `json:"com.docker.compose.project"`
		}
	}
}

// dockerHostConfig has the used fields of hostconfig.json.
type dockerHostConfig struct {
	Runtime        string // the name in the daemon's configuration, such as runc or nvidia
	DeviceRequests []deviceRequest
}

// deviceRequest is a request for devices, such as --gpus.
type deviceRequest struct {
	Driver       string
	Count        int // -1 for all
	DeviceIDs    []string
	Capabilities [][]string
}

// readDocker reads the files of a container of Docker.
func readDocker(root, id string) (c container, err error) {
	c.manager = Docker
	dir := filepath.Join(root, "containers", id)
	var config dockerConfig
	if err := decode(filepath.Join(dir, "config.v2.json"), &config); err != nil {
		return c, err
	}
	c.name = strings.TrimPrefix(config.Name, "/")
	c.image, c.project = config.Config.Image, config.Config.Labels.Project
	var host dockerHostConfig
	if err := decode(filepath.Join(dir, "hostconfig.json"), &host); err != nil {
		return c, err
	}
	for _, r := range host.DeviceRequests {
		c.devices = append(c.devices, r.devices()...)
	}
	// A request sets the variable that this runtime reads. Images set it as well, for every runtime.
	if len(host.DeviceRequests) == 0 && strings.HasPrefix(host.Runtime, nvidiaRuntime) {
		c.devices = config.Config.Env.devices()
	}
	return c, nil
}

// decode decodes a file. An error contains no part of the file.
func decode(path string, into any) error {
	data, _, err := readTrusted(path, maxContainerFile)
	if err != nil {
		return err
	}
	if json.Unmarshal(data, into) != nil {
		return fmt.Errorf("%s: invalid JSON or unexpected types", path)
	}
	return nil
}

// devices returns the GPUs of a request. A number of GPUs means the first ones by index.
func (r deviceRequest) devices() (list []gpu.DeviceName) {
	switch {
	case r.Driver == "cdi":
		for _, id := range r.DeviceIDs {
			if strings.HasPrefix(id, cdiKind) {
				list = append(list, requested(id)...)
			}
		}
	case r.Driver != "nvidia" && !slices.ContainsFunc(r.Capabilities, func(all []string) bool { return slices.Contains(all, "gpu") }):
	case r.Count < 0:
		list = requested("all")
	case r.Count > 0:
		for i := range min(r.Count, maxHeldLines) {
			list = append(list, gpu.DeviceName{Index: &i})
		}
	default:
		for _, id := range r.DeviceIDs {
			list = append(list, requested(id)...)
		}
	}
	return list
}

// cdiKind precedes the name of a GPU in a name of the Container Device Interface.
const cdiKind = "nvidia.com/gpu="

// requested returns the GPU of an id: all, a UUID, an index, or <index>:<index of a MIG device>,
// also as a name of the Container Device Interface.
func requested(id string) []gpu.DeviceName {
	id = strings.TrimPrefix(id, cdiKind)
	if id == "all" {
		return []gpu.DeviceName{{All: true}}
	}
	number, part, isPart := strings.Cut(id, ":")
	d, ok := parseDevice(number, Index)
	if !ok || strings.Contains(number, ".") || isPart && !isNumber(part) {
		return nil
	}
	if isPart {
		ordinal, _ := strconv.Atoi(part)
		d.Partition = &gpu.PartitionName{Ordinal: &ordinal}
	}
	return []gpu.DeviceName{d}
}
