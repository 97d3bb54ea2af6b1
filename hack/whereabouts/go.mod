module github.com/holdfast-dev/holdfast/hack/whereabouts

go 1.26.0
