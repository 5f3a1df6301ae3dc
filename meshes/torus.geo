// The solid torus around the z axis: curl-free, divergence-free fields that are no gradients live in it.
DefineConstant[ h = 0.2, major = 1, minor = 0.4 ];
SetFactory("OpenCASCADE");
Torus(1) = {0, 0, 0, major, minor};
Physical Volume("domain", 1) = {1};
Physical Surface("boundary", 2) = Surface{:};
Mesh.MeshSizeMin = h;
Mesh.MeshSizeMax = h;
