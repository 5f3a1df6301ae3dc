// The disk around the origin.
DefineConstant[ h = 0.1, radius = 1 ];
Point(1) = {0, 0, 0, h};
Point(2) = {radius, 0, 0, h};
Point(3) = {0, radius, 0, h};
Point(4) = {-radius, 0, 0, h};
Point(5) = {0, -radius, 0, h};
Circle(1) = {2, 1, 3};
Circle(2) = {3, 1, 4};
Circle(3) = {4, 1, 5};
Circle(4) = {5, 1, 2};
Curve Loop(1) = {1, 2, 3, 4};
Plane Surface(1) = {1};
Physical Surface("domain", 1) = {1};
Physical Curve("boundary", 2) = {1, 2, 3, 4};
