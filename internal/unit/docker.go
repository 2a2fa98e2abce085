package unit

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// maxContainerFile limits the size in bytes of an engine's file about a container. maxContainerList limits the size of
// Podman's list of containers. Most files have a few KiB. A container in the list needs less than one KiB.
const (
	maxContainerFile = 1 << 20
	maxContainerList = 4 << 20
)

type container struct {
	manager, name, image, project string
	devices                       []gpu.DeviceName
}

// checked removes texts that are invalid as labels.
func (c container) checked() container {
	for _, text := range []*string{&c.name, &c.image, &c.project} {
		if !validName(*text) {
			*text = ""
		}
	}
	return c
}

func (c *container) hold(devices []gpu.DeviceName) {
	c.devices = append(c.devices, devices[:min(len(devices), maxHeldLines-len(c.devices))]...)
}

// readDocker reads the files of a Docker container: <data root>/containers/<id>/config.v2.json and hostconfig.json. The
// first file contains the container's environment, which may include secrets. Therefore readDocker keeps only the
// fields that the exporter uses.
func readDocker(root, id string) (container, error) {
	c := container{manager: Docker}
	dir := filepath.Join(root, "containers", id)
	var visible visibleDevices
	err := readDocument(filepath.Join(dir, "config.v2.json"), maxContainerFile, func(d *document) error {
		return d.object(func(field string) error {
			switch field {
			case "Name":
				return d.text(&c.name)
			case "Config":
				return c.readDockerConfig(d, &visible)
			}
			return d.skip()
		})
	})
	if err != nil {
		return container{manager: Docker}, err
	}
	c.name = strings.TrimPrefix(c.name, "/")
	requests, runtime := 0, "" // runtime is a name in the daemon's configuration, such as runc or nvidia
	err = readDocument(filepath.Join(dir, "hostconfig.json"), maxContainerFile, func(d *document) error {
		return d.object(func(field string) error {
			switch field {
			case "Runtime":
				return d.text(&runtime)
			case "DeviceRequests":
				return d.list(func() error {
					requests++
					r, err := readDeviceRequest(d)
					if len(c.devices) < maxHeldLines {
						c.hold(r.devices())
					}
					return err
				})
			}
			return d.skip()
		})
	})
	// Only NVIDIA's runtime reads the variable NVIDIA_VISIBLE_DEVICES. An image may contain the variable, but other
	// runtimes ignore it.
	if err == nil && requests == 0 && strings.HasPrefix(runtime, nvidiaRuntime) {
		c.devices = visible.devices()
	}
	return c, err
}

func (c *container) readDockerConfig(d *document, visible *visibleDevices) error {
	return d.object(func(field string) error {
		switch field {
		case "Image":
			return d.text(&c.image)
		case "Env":
			return visible.read(d)
		case "Labels":
			return d.object(func(label string) error {
				if label == "com.docker.compose.project" {
					return d.text(&c.project)
				}
				return d.skip()
			})
		}
		return d.skip()
	})
}

// deviceRequest is created by Docker's option --gpus.
type deviceRequest struct {
	driver string
	count  int64    // -1 means all devices
	ids    []string // at most maxHeldLines
	gpu    bool     // set if the capabilities include gpu
}

func readDeviceRequest(d *document) (r deviceRequest, err error) {
	err = d.object(func(field string) error {
		switch field {
		case "Driver":
			return d.text(&r.driver)
		case "Count":
			return d.number(&r.count)
		case "DeviceIDs":
			return d.list(func() error {
				var id string
				err := d.text(&id)
				if len(r.ids) < maxHeldLines {
					r.ids = append(r.ids, id)
				}
				return err
			})
		case "Capabilities":
			return d.list(func() error {
				return d.list(func() error {
					var capability string
					err := d.text(&capability)
					r.gpu = r.gpu || capability == "gpu"
					return err
				})
			})
		}
		return d.skip()
	})
	return r, err
}

// A request for n GPUs selects the n lowest indices.
func (r deviceRequest) devices() (list []gpu.DeviceName) {
	switch {
	case r.driver == "cdi":
		for _, id := range r.ids {
			if strings.HasPrefix(id, cdiKind) {
				list = append(list, requested(id)...)
			}
		}
	case r.driver != "nvidia" && !r.gpu:
	case r.count < 0:
		list = requested("all")
	case r.count > 0:
		for i := range int(min(r.count, maxHeldLines)) {
			list = append(list, gpu.DeviceName{Index: &i})
		}
	default:
		for _, id := range r.ids {
			list = append(list, requested(id)...)
		}
	}
	return list
}

const cdiKind = "nvidia.com/gpu="

// requested returns the GPUs for an id. An id is all, a UUID, an index, <index>:<index of a MIG device>, or a name in
// the Container Device Interface.
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
