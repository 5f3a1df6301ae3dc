// The unit cube without a ball in its middle: its boundary has two parts, so divergence-free fields need not be curls.
DefineConstant[ h = 0.2, radius = 0.25 ];
SetFactory("OpenCASCADE");
Box(1) = {0, 0, 0, 1, 1, 1};
Sphere(2) = {0.5, 0.5, 0.5, radius};
BooleanDifference(3) = { Volume{1}; Delete; }{ Volume{2}; Delete; };
e = 1e-3;
hole() = Surface In BoundingBox {0.5 - radius - e, 0.5 - radius - e, 0.5 - radius - e, 0.5 + radius + e, 0.5 + radius + e, 0.5 + radius + e};
all() = Surface{:};
all() -= hole();
Physical Volume("domain", 1) = {3};
Physical Surface("outer", 2) = {all()};
Physical Surface("void", 3) = {hole()};
Mesh.MeshSizeMin = h / 2;
Mesh.MeshSizeMax = h;
Mesh.MeshSizeFromCurvature = Ceil(2 * Pi * radius / (0.6 * h));
